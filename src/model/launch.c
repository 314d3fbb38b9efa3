// launch.c - launch parameters: blocks and warps per kernel so that several kernels run at once.
//
// The dynamic program of papers 1 and 2 (algorithm 1), put right.  A multiprocessor takes its share of every kernel's
// threads.  A kernel with T warps there has a choice: b blocks of ceil(T / b) warps.  Of the choices only those count
// that trade more blocks for fewer warps.  With V[i, b, w] the least shared memory of the first i kernels,
//
//     V[i, b, w] = min over the choices (b', w') of kernel i:  V[i - 1, b - b', w - w'] + b' * bytes of a block
//
// Three changes to the paper:
//
//   - b and w count what is taken beyond the least that all kernels together need.  Then most cells do not exist (31
//     kernels leave 1 of 32 blocks to choose about), kernels with one choice need no step, and the sums of a label are
//     a lower bound for everything that can follow from it.
//   - Registers depend on the choice too, since a rounded-up warp has registers.  So a cell holds not one value but
//     every pair of registers and shared memory that no other pair in the cell beats: its labels.
//   - Sums are not everything: warps must fit into partitions, and blocks of a pair into one multiprocessor each.  If
//     the label with the least shared memory can be placed, nothing is better.  Else the other labels are tried, and
//     for a pair a search places kernel after kernel with every number of blocks, for a limited number of steps.

#include <stdlib.h>

#include "model/model_int.h"

typedef struct LaunchChoice {
    int blocks, warps_per_block;
    int extra_blocks, extra_warps;                          // beyond the least of any choice of this kernel
    int extra_registers;
    i64 extra_shared;
} LaunchChoice;

typedef struct Share {                                      // of a kernel on a group of multiprocessors
    BlockCost warp;                                         // a block of one warp
    LaunchChoice *choices;                                        // ever more blocks and ever fewer warps
    int n_choices;
    int warps;                                              // the least of any choice
    int warps_needed, warps_max;                            // of all blocks together; of one block
} Share;

typedef struct LaunchLabel {                                      // one way to choose for the kernels so far
    int extra_blocks, extra_warps;
    int registers;                                          // with the least that the other kernels can take
    i64 shared;
    int choice, before;                                     // of the last kernel; the label it was added to
    int next;                                               // in the same cell; -1: none
} LaunchLabel;

typedef struct Solver {
    Arena *scratch;
    const GpuLimits *limits;
    const LaunchKernel *kernels;                            // the caller's
    int *order;                                             // in which the solver has them, and in which they start
    int n_kernels;
    int group, n_groups;
    Share *shares;                                          // of each kernel, in this order
    LaunchShape *shapes;                                    // likewise
    int blocks_left, warps_left;                            // beyond what all kernels need at least
    int registers_least;
    i64 shared_least;
    LaunchLabel *labels;
    int n_labels;
    int *cells;                                             // the first label of each: [extra_blocks][extra_warps]
} Solver;

// ---- choices --------------------------------------------------------------------------------------------------------

static LaunchChoice *add_choice(Solver *solver, Share *share, int blocks)
{
    // As many blocks as the one before with fewer warps: that one is never better.
    if (share->n_choices > 0 && share->choices[share->n_choices - 1].blocks == blocks)
        return &share->choices[share->n_choices - 1];
    return LIST_PUSH(solver->scratch, share->choices, share->n_choices);
}

static void find_choices(Solver *solver, Share *share)
{
    const int needed = share->warps_needed;
    int fewest = INT32_MAX;
    for (int per_block = MIN_OF(share->warps_max, needed); per_block >= 1 && fewest > needed; per_block--) {
        const int blocks = ceil_div(needed, per_block);
        if (blocks > solver->limits->blocks * solver->group)
            break;
        if (blocks * per_block >= fewest)
            continue;
        fewest = blocks * per_block;
        *add_choice(solver, share, blocks) = (LaunchChoice){ .blocks = blocks, .warps_per_block = per_block };
    }
    share->warps = fewest;
}

static void count_extras(Share *share)
{
    for (int i = 0; i < share->n_choices; i++) {
        LaunchChoice *choice = &share->choices[i];
        choice->extra_blocks = choice->blocks - share->choices[0].blocks;
        choice->extra_warps = choice->blocks * choice->warps_per_block - share->warps;
        choice->extra_registers = choice->extra_warps * share->warp.registers_per_warp;
        choice->extra_shared = (i64)choice->extra_blocks * share->warp.shared;
    }
}

// False: the kernel does not fit by itself.
static bool share_out(Solver *solver, const LaunchKernel *kernel, Share *share)
{
    ASSERT(kernel->n_threads >= 1);
    const i64 threads_per_warp_row = (i64)solver->limits->threads_per_warp * solver->n_groups;
    const i64 warps = (kernel->n_threads - 1) / threads_per_warp_row + 1;
    const int warps_max = block_warps_max(solver->limits, &kernel->needs);
    if (warps_max == 0 || warps > (i64)solver->limits->warps * solver->group)
        return false;
    share->warp = block_cost(solver->limits, &kernel->needs, solver->limits->threads_per_warp);
    share->warps_needed = (int)warps;
    share->warps_max = warps_max;
    find_choices(solver, share);
    count_extras(share);
    return share->n_choices > 0;
}

// ---- sums -----------------------------------------------------------------------------------------------------------

// What all kernels need at least.  False: more than there is.
static bool add_up(Solver *solver)
{
    const GpuLimits *limits = solver->limits;
    i64 blocks = 0, warps = 0, registers = 0;
    for (int i = 0; i < solver->n_kernels; i++) {
        const Share *share = &solver->shares[i];
        blocks += share->choices[0].blocks;
        warps += share->warps;
        registers += (i64)share->warps * share->warp.registers_per_warp;
        solver->shared_least += (i64)share->choices[0].blocks * share->warp.shared;
    }
    const i64 group = solver->group;
    if (blocks > limits->blocks * group || warps > limits->warps * group || registers > limits->registers * group ||
        solver->shared_least > limits->shared * group)
        return false;
    solver->blocks_left = limits->blocks * solver->group - (int)blocks;
    solver->warps_left = limits->warps * solver->group - (int)warps;
    solver->registers_least = (int)registers;
    return true;
}

// ---- the order ------------------------------------------------------------------------------------------------------
// The largest kernel first: small ones find a place in what is left.  The order depends on nothing but what kernels
// need, so whether there is a plan does not depend on the order in which the caller has them.

typedef struct Sized {
    double size;                                            // of the scarcest resource
    Share share;
    int kernel;
} Sized;

static double size_of(const Solver *solver, const Share *share)
{
    const GpuLimits *limits = solver->limits;
    const double blocks = share->choices[0].blocks, warps = share->warps;
    double size = MAX_OF(blocks / limits->blocks, warps / limits->warps);
    size = MAX_OF(size, warps * share->warp.registers_per_warp / limits->registers);
    return limits->shared == 0 ? size : MAX_OF(size, blocks * share->warp.shared / limits->shared);
}

static int compare_ints(i64 a, i64 b)
{
    return (a > b) - (a < b);
}

// Shares that are equal in all of this have the same choices.
static int compare_sized(const void *a, const void *b)
{
    const Sized *x = a, *y = b;
    int order = (x->size < y->size) - (x->size > y->size);
    if (order == 0)
        order = compare_ints(y->share.warp.shared, x->share.warp.shared);
    if (order == 0)
        order = compare_ints(y->share.warp.registers_per_warp, x->share.warp.registers_per_warp);
    if (order == 0)
        order = compare_ints(y->share.warps_needed, x->share.warps_needed);
    if (order == 0)
        order = compare_ints(y->share.warps_max, x->share.warps_max);
    return order ? order : compare_ints(x->kernel, y->kernel);
}

static void sort_shares(Solver *solver)
{
    Sized *sized = arena_array(solver->scratch, Sized, solver->n_kernels);
    for (int i = 0; i < solver->n_kernels; i++)
        sized[i] = (Sized){ size_of(solver, &solver->shares[i]), solver->shares[i], i };
    if (solver->n_kernels > 1)
        qsort(sized, (size_t)solver->n_kernels, sizeof(Sized), compare_sized);
    solver->order = arena_array(solver->scratch, int, solver->n_kernels);
    for (int i = 0; i < solver->n_kernels; i++) {
        solver->shares[i] = sized[i].share;
        solver->order[i] = sized[i].kernel;
    }
}

// ---- the dynamic program --------------------------------------------------------------------------------------------

static bool is_within(const Solver *solver, const LaunchLabel *label)
{
    return label->extra_blocks <= solver->blocks_left && label->extra_warps <= solver->warps_left &&
           label->registers <= solver->limits->registers * solver->group &&
           label->shared <= (i64)solver->limits->shared * solver->group;
}

static LaunchLabel extend(const LaunchLabel *label, int before, const Share *share, int choice)
{
    const LaunchChoice *taken = &share->choices[choice];
    return (LaunchLabel){ .extra_blocks = label->extra_blocks + taken->extra_blocks,
                    .extra_warps = label->extra_warps + taken->extra_warps,
                    .registers = label->registers + taken->extra_registers,
                    .shared = label->shared + taken->extra_shared,
                    .choice = choice,
                    .before = before,
                    .next = -1 };
}

static bool beats(const LaunchLabel *a, const LaunchLabel *b)
{
    return a->registers <= b->registers && a->shared <= b->shared;
}

// Adds the label to its cell, unless one there beats it; those that it beats leave the cell.
static void keep(Solver *solver, const LaunchLabel *label)
{
    int *link = &solver->cells[label->extra_blocks * (solver->warps_left + 1) + label->extra_warps];
    for (int at = *link; at >= 0; at = solver->labels[at].next)
        if (beats(&solver->labels[at], label))
            return;
    for (int *from = link; *from >= 0;) {
        if (beats(label, &solver->labels[*from]))
            *from = solver->labels[*from].next;
        else
            from = &solver->labels[*from].next;
    }
    const int first = *link, own = solver->n_labels;
    *LIST_PUSH(solver->scratch, solver->labels, solver->n_labels) = *label;
    solver->labels[own].next = first;
    *link = own;
}

static int count_cells(const Solver *solver)
{
    return (solver->blocks_left + 1) * (solver->warps_left + 1);
}

// The labels that are in cells, cell by cell.
static int *collect(Solver *solver, int *n)
{
    int *list = NULL;
    *n = 0;
    for (int cell = 0; cell < count_cells(solver); cell++)
        for (int at = solver->cells[cell]; at >= 0; at = solver->labels[at].next)
            *LIST_PUSH(solver->scratch, list, *n) = at;
    return list;
}

static void clear_cells(Solver *solver)
{
    memset(solver->cells, 0xff, sizeof(int) * (size_t)count_cells(solver));     // -1
}

static void add_kernel(Solver *solver, const Share *share, const int *labels, int n)
{
    clear_cells(solver);
    for (int i = 0; i < n; i++)
        for (int choice = 0; choice < share->n_choices; choice++) {
            const LaunchLabel label = extend(&solver->labels[labels[i]], labels[i], share, choice);
            if (is_within(solver, &label))
                keep(solver, &label);
        }
}

static LaunchLabel first_label(const Solver *solver)
{
    return (LaunchLabel){
        .registers = solver->registers_least, .shared = solver->shared_least, .before = -1, .next = -1
    };
}

// The labels after the last kernel that has a choice.
static int *solve(Solver *solver, int *n)
{
    solver->cells = arena_array(solver->scratch, int, count_cells(solver));
    *LIST_PUSH(solver->scratch, solver->labels, solver->n_labels) = first_label(solver);
    clear_cells(solver);
    solver->cells[0] = 0;
    int *labels = collect(solver, n);
    for (int i = 0; i < solver->n_kernels; i++) {
        if (solver->shares[i].n_choices == 1)
            continue;
        add_kernel(solver, &solver->shares[i], labels, *n);
        labels = collect(solver, n);
    }
    return labels;
}

// ---- from a label to a plan -----------------------------------------------------------------------------------------

static LaunchShape shape_of(const Solver *solver, const LaunchChoice *choice)
{
    return (LaunchShape){ .threads_per_block = choice->warps_per_block * solver->limits->threads_per_warp,
                          .blocks = choice->blocks,
                          .n_blocks = (i64)choice->blocks * solver->n_groups };
}

static void take_choices(Solver *solver, int label)
{
    for (int i = solver->n_kernels - 1; i >= 0; i--) {
        const Share *share = &solver->shares[i];
        int choice = 0;
        if (share->n_choices > 1) {
            choice = solver->labels[label].choice;
            label = solver->labels[label].before;
        }
        solver->shapes[i] = shape_of(solver, &share->choices[choice]);
    }
}

// The kernel's blocks, one by one, where the block scheduler puts them.
static bool place_kernel(const Solver *solver, Load *loads, const Share *share, const LaunchShape *shape)
{
    int own[GROUP_MAX] = { 0 };
    BlockCost cost = share->warp;
    cost.warps = shape->threads_per_block / solver->limits->threads_per_warp;
    cost.registers = cost.warps * cost.registers_per_warp;
    for (int block = 0; block < shape->blocks; block++) {
        BlockPlace place;
        const int where = loads_spread(solver->limits, loads, own, solver->group, &cost, &place);
        if (where < 0)
            return false;
        own[where]++;
    }
    return true;
}

static bool can_be_placed(const Solver *solver)
{
    Load loads[GROUP_MAX];
    memset(loads, 0, sizeof(loads));
    for (int i = 0; i < solver->n_kernels; i++)
        if (!place_kernel(solver, loads, &solver->shares[i], &solver->shapes[i]))
            return false;
    return true;
}

// ---- the search for a place -----------------------------------------------------------------------------------------
// Only for pairs, and for kernels whose sums fit and whose best label does not.  More blocks than the sums ask for may
// be easier to place on a pair.  On one multiprocessor they are not: warps are placed one by one, whatever their block.

enum { SEARCH_STEPS = 100 };                                // kernels placed, well under a microsecond each

typedef struct PlaceSearch {
    const Solver *solver;
    LaunchShape *shapes, *best;                             // at hand; the best so far
    i64 shared_best;                                        // INT64_MAX: none so far
    i64 shared_least;                                       // of any way that the sums allow
    int steps_left;
} PlaceSearch;

static void search_from(PlaceSearch *search, int i, const Load *before, i64 shared);

static void search_kernel(PlaceSearch *search, int i, const Load *before, i64 shared, int blocks)
{
    const Share *share = &search->solver->shares[i];
    const LaunchChoice choice = { .blocks = blocks, .warps_per_block = ceil_div(share->warps_needed, blocks) };
    Load loads[GROUP_MAX];
    memcpy(loads, before, sizeof(loads));
    search->steps_left--;
    search->shapes[i] = shape_of(search->solver, &choice);
    if (place_kernel(search->solver, loads, share, &search->shapes[i]))
        search_from(search, i + 1, loads, shared + (i64)(blocks - share->choices[0].blocks) * share->warp.shared);
}

// SHARED is the least that can come of the choices so far.
static void search_from(PlaceSearch *search, int i, const Load *before, i64 shared)
{
    const Solver *solver = search->solver;
    if (i == solver->n_kernels) {
        search->shared_best = shared;
        memcpy(search->best, search->shapes, sizeof(LaunchShape) * (size_t)i);
        return;
    }
    const Share *share = &solver->shares[i];
    const int fewest = share->choices[0].blocks;
    const int most = MIN_OF(share->warps_needed, solver->limits->blocks * solver->group);
    for (int blocks = fewest; blocks <= most && search->steps_left > 0; blocks++) {
        if (search->shared_best == search->shared_least ||
            shared + (i64)(blocks - fewest) * share->warp.shared >= search->shared_best)
            return;
        search_kernel(search, i, before, shared, blocks);
    }
}

static bool search_places(const Solver *solver, i64 shared_least, i64 shared_best)
{
    const Load empty[GROUP_MAX] = { 0 };
    PlaceSearch search = { .solver = solver,
                           .shapes = arena_array(solver->scratch, LaunchShape, solver->n_kernels),
                           .best = solver->shapes,
                           .shared_best = shared_best,
                           .shared_least = shared_least,
                           .steps_left = SEARCH_STEPS };
    search_from(&search, 0, empty, solver->shared_least);
    return search.shared_best < INT64_MAX;
}

// ---- the plan -------------------------------------------------------------------------------------------------------

typedef struct Ranked {
    i64 shared;
    int label;
} Ranked;

static int compare_ranked(const void *a, const void *b)
{
    const Ranked *x = a, *y = b;
    return x->shared != y->shared ? (x->shared < y->shared ? -1 : 1) : (x->label > y->label) - (x->label < y->label);
}

// By shared memory.
static Ranked *rank_labels(Solver *solver, int *n)
{
    const int *labels = solve(solver, n);
    Ranked *ranked = arena_array(solver->scratch, Ranked, *n);
    for (int i = 0; i < *n; i++)
        ranked[i] = (Ranked){ solver->labels[labels[i]].shared, labels[i] };
    if (*n > 1)
        qsort(ranked, (size_t)*n, sizeof(Ranked), compare_ranked);
    return ranked;
}

static bool take_best(Solver *solver)
{
    int n;
    i64 shared_best = INT64_MAX;
    const Ranked *ranked = rank_labels(solver, &n);
    for (int i = 0; i < n && shared_best == INT64_MAX; i++) {
        take_choices(solver, ranked[i].label);
        if (can_be_placed(solver))
            shared_best = ranked[i].shared;
    }
    if (n > 0 && shared_best > ranked[0].shared && solver->group > 1)
        return search_places(solver, ranked[0].shared, shared_best);
    return shared_best < INT64_MAX;
}

// The fewest blocks of every kernel take the least shared memory, so when their warps and registers fit, nothing is
// better.  Most plans end here.
static bool take_fewest_blocks(Solver *solver)
{
    LaunchLabel label = first_label(solver);
    for (int i = 0; i < solver->n_kernels; i++) {
        label = extend(&label, -1, &solver->shares[i], 0);
        solver->shapes[i] = shape_of(solver, &solver->shares[i].choices[0]);
    }
    return is_within(solver, &label) && can_be_placed(solver);
}

// In the caller's order of kernels.
static void fill_plan(const Solver *solver, Arena *arena, LaunchPlan *plan)
{
    *plan = (LaunchPlan){ .group = solver->group, .n_groups = solver->n_groups };
    plan->shapes = arena_array(arena, LaunchShape, solver->n_kernels);
    plan->order = arena_array(arena, int, solver->n_kernels);
    for (int i = 0; i < solver->n_kernels; i++) {
        const LaunchShape *shape = &solver->shapes[i];
        const int warps = shape->blocks * (shape->threads_per_block / solver->limits->threads_per_warp);
        plan->order[i] = solver->order[i];
        plan->shapes[solver->order[i]] = *shape;
        plan->blocks += shape->blocks;
        plan->warps += warps;
        plan->registers += warps * solver->shares[i].warp.registers_per_warp;
        plan->shared += (i64)shape->blocks * solver->shares[i].warp.shared;
    }
}

static bool plan_with(Solver *solver)
{
    solver->shares = arena_array(solver->scratch, Share, solver->n_kernels);
    solver->shapes = arena_array(solver->scratch, LaunchShape, solver->n_kernels);
    for (int i = 0; i < solver->n_kernels; i++)
        if (!share_out(solver, &solver->kernels[i], &solver->shares[i]))
            return false;
    if (!add_up(solver))
        return false;
    sort_shares(solver);
    return take_fewest_blocks(solver) || take_best(solver);
}

bool launch_plan_group(Arena *arena, const GpuLimits *limits, int group, const LaunchKernel *kernels, int n_kernels,
                       LaunchPlan *plan)
{
    ASSERT(group >= 1 && group <= GROUP_MAX);
    if (limits->n_multiprocessors < group || n_kernels > limits->grids)
        return false;
    Solver solver = { .scratch = arena_new(arena, "launch plan"),
                      .limits = limits,
                      .kernels = kernels,
                      .n_kernels = n_kernels,
                      .group = group,
                      .n_groups = limits->n_multiprocessors / group };
    const bool is_found = plan_with(&solver);
    if (is_found)
        fill_plan(&solver, arena, plan);
    arena_free(solver.scratch);
    return is_found;
}

bool launch_plan(Arena *arena, const GpuLimits *limits, const LaunchKernel *kernels, int n_kernels, LaunchPlan *plan)
{
    for (int group = 1; group <= GROUP_MAX; group++)
        if (launch_plan_group(arena, limits, group, kernels, n_kernels, plan))
            return true;
    return false;
}

// ---- for batches ----------------------------------------------------------------------------------------------------

Amounts group_capacity(const GpuLimits *limits, int group)
{
    return (Amounts){ .of = { [RESOURCE_BLOCKS] = (i64)limits->blocks * group,
                              [RESOURCE_WARPS] = (i64)limits->warps * group,
                              [RESOURCE_REGISTERS] = (i64)limits->registers * group,
                              [RESOURCE_SHARED] = (i64)limits->shared * group,
                              [RESOURCE_GRIDS] = limits->grids } };
}

static Amounts amounts_of(const Share *share, const LaunchChoice *choice)
{
    const i64 warps = (i64)choice->blocks * choice->warps_per_block;
    return (Amounts){ .of = { [RESOURCE_BLOCKS] = choice->blocks,
                              [RESOURCE_WARPS] = warps,
                              [RESOURCE_REGISTERS] = warps * share->warp.registers_per_warp,
                              [RESOURCE_SHARED] = (i64)choice->blocks * share->warp.shared,
                              [RESOURCE_GRIDS] = 1 } };
}

int launch_choices(Arena *arena, const GpuLimits *limits, int group, const LaunchKernel *kernel, Amounts **choices)
{
    LaunchPlan alone;
    if (!launch_plan_group(arena, limits, group, kernel, 1, &alone))
        return 0;
    Solver solver = { .scratch = arena, .limits = limits, .group = group, .n_groups = alone.n_groups };
    Share share = { 0 };
    share_out(&solver, kernel, &share);
    *choices = arena_array(arena, Amounts, share.n_choices);
    for (int i = 0; i < share.n_choices; i++)
        (*choices)[i] = amounts_of(&share, &share.choices[i]);
    return share.n_choices;
}
