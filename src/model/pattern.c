// pattern.c - sets of kernels that can run at once, enumerated by their value.
//
// A depth-first search, stage after stage: a stage is a kernel type with one of its choices (see launch.c), and of each
// it tries from many kernels to none.  A branch ends when its bound is too low.  Each resource has a table of bounds
//
//     most[stage][room] = the most value that the stages from this one on can add, if only this resource were scarce
//
// which is a knapsack problem of one dimension, solved for all stages and rooms before the search.  The least over all
// resources holds.
// A leaf counts if stage two finds a launch for it.  So exactly what can be launched is enumerated.

#include <math.h>

#include "model/model_int.h"

enum {
    LEVELS_MAX = 256,                                       // of room in a table
    ANSWER_STEPS = 3,                                       // what a question to stage two costs, in nodes,
    LAUNCH_STEPS = 80,                                      // and when it is asked for the first time
};

typedef struct PatternStage {
    int type;
    bool is_last;                                           // of its type
    const Amounts *each;                                    // what a kernel takes
    double value;
} PatternStage;

typedef struct PatternTable {
    int shift;                                              // a level is so many powers of two of the resource
    int n_levels;
    double *most;                                           // [stage][level], level 0 to n_levels
} PatternTable;

typedef struct Walk {
    Enumeration *all;
    const Packing *packing;
    PatternStage *stages;
    int n_stages;
    PatternTable tables[RESOURCE_N];
    int *counts;
    int *left;                                              // of each type, that may still be added
} Walk;

// ---- what can be launched -------------------------------------------------------------------------------------------

static bool ask_launch(const Packing *packing, const int *counts)
{
    Arena *arena = arena_new(packing->scratch, "pattern");
    LaunchPlan plan;
    int n = 0;
    for (int type = 0; type < packing->n_types; type++)
        n += counts[type];
    LaunchKernel *kernels = arena_array(arena, LaunchKernel, n);
    for (int type = packing->n_types - 1, at = n; type >= 0; type--)
        for (int i = 0; i < counts[type]; i++)
            kernels[--at] = packing->types[type].kernel;
    const bool is_possible = launch_plan_group(arena, packing->limits, packing->group, kernels, n, &plan);
    arena_free(arena);
    return is_possible;
}

bool pattern_is_possible(const Packing *packing, const int *counts)
{
    const size_t bytes = sizeof(int) * (size_t)packing->n_types;
    u64 answer;
    if (!map_get(packing->answers->known, counts, bytes, &answer)) {
        answer = ask_launch(packing, counts);
        map_set(packing->answers->known, counts, bytes, answer);
        packing->answers->n_asked++;
    }
    return answer;
}

static bool ask_stage_two(const Walk *walk)
{
    const int n_before = walk->packing->answers->n_asked;
    const bool is_possible = pattern_is_possible(walk->packing, walk->counts);
    const int steps = ANSWER_STEPS + LAUNCH_STEPS * (walk->packing->answers->n_asked - n_before);
    walk->all->steps_left = MAX_OF(0, walk->all->steps_left - steps);
    return is_possible;
}

// ---- stages ---------------------------------------------------------------------------------------------------------

// Value for the scarcest resource; the type that must be there comes first, and what cannot be added last.
static double rank_of(const Walk *walk, const Amounts *capacity, int type)
{
    double size = 0;
    if (walk->left[type] == 0)
        return -1;
    if (type == walk->all->must)
        return INFINITY;
    for (int resource = 0; resource < RESOURCE_N; resource++)
        if (capacity->of[resource] > 0)
            size = fmax(size, (double)walk->packing->types[type].least.of[resource] / (double)capacity->of[resource]);
    return walk->all->values[type] / size;
}

static int *order_types(const Walk *walk, Arena *arena, const Amounts *capacity)
{
    const int n = walk->packing->n_types;
    double *ranks = arena_array(arena, double, n);
    int *order = arena_array(arena, int, n);
    for (int type = 0; type < n; type++) {
        int at = type;
        ranks[type] = rank_of(walk, capacity, type);
        for (; at > 0 && ranks[order[at - 1]] < ranks[type]; at--)
            order[at] = order[at - 1];
        order[at] = type;
    }
    return order;
}

static void make_stages(Walk *walk, Arena *arena, const Amounts *capacity)
{
    const int *order = order_types(walk, arena, capacity);
    for (int i = 0; i < walk->packing->n_types; i++) {
        const BatchType *type = &walk->packing->types[order[i]];
        const int n_choices = walk->left[order[i]] > 0 ? type->n_choices : 0;
        for (int choice = 0; choice < n_choices; choice++)
            *LIST_PUSH(arena, walk->stages, walk->n_stages) =
                (PatternStage){ .type = order[i],
                                .is_last = choice + 1 == n_choices,
                                .each = &type->choices[choice],
                                .value = walk->all->values[order[i]] };
    }
}

// ---- tables of bounds -----------------------------------------------------------------------------------------------

// MOST gets the best of none, one, two, ... kernels of a stage and AFTER for the rest.  Amounts are rounded down to
// whole levels, so a bound is never too low.
static void fill_row(double *most, const double *after, int n_levels, int levels_each, double value, int n)
{
    memcpy(most, after, sizeof(double) * (size_t)(n_levels + 1));
    for (int k = 1; k <= n && k * levels_each <= n_levels; k++) {
        const int shift = k * levels_each;
        for (int level = shift; level <= n_levels; level++) {
            const double with = after[level - shift] + k * value;
            most[level] = with > most[level] ? with : most[level];
        }
    }
}

// Kept from one enumeration to the next: tables are large and short-lived, and fresh memory costs more than filling it.
static double *table_space(const Packing *packing, Resource resource, int n)
{
    TableSpace *space = &packing->tables[resource];
    if (space->n < n) {
        space->n = n;
        space->numbers = arena_array(packing->scratch, double, n);
    }
    return space->numbers;
}

static void fill_table(Walk *walk, const Amounts *capacity, Resource resource)
{
    PatternTable *table = &walk->tables[resource];
    while (capacity->of[resource] >> table->shift > LEVELS_MAX)
        table->shift++;
    table->n_levels = (int)(capacity->of[resource] >> table->shift);
    const int width = table->n_levels + 1;
    table->most = table_space(walk->packing, resource, (walk->n_stages + 1) * width);
    memset(&table->most[walk->n_stages * width], 0, sizeof(double) * (size_t)width);
    for (int i = walk->n_stages - 1; i >= 0; i--) {
        const PatternStage *stage = &walk->stages[i];
        fill_row(&table->most[i * width], &table->most[(i + 1) * width], table->n_levels,
                 (int)(stage->each->of[resource] >> table->shift), stage->value, walk->left[stage->type]);
    }
}

static double bound_by(const PatternTable *table, i64 room, int stage)
{
    return table->most[stage * (table->n_levels + 1) + (room >> table->shift)];
}

static bool is_promising(const Walk *walk, const Amounts *room, double value, int stage)
{
    for (int resource = 0; resource < RESOURCE_N; resource++)
        if (value + bound_by(&walk->tables[resource], room->of[resource], stage) <= walk->all->threshold)
            return false;
    return true;
}

// ---- the search -----------------------------------------------------------------------------------------------------

static bool has_room(const Amounts *room, const Amounts *amounts)
{
    for (int resource = 0; resource < RESOURCE_N; resource++)
        if (amounts->of[resource] > room->of[resource])
            return false;
    return true;
}

// Whether no kernel that is left can be added.
static bool is_maximal(const Walk *walk, const Amounts *room)
{
    for (int type = 0; type < walk->packing->n_types; type++) {
        if (walk->left[type] == 0 || !has_room(room, &walk->packing->types[type].least))
            continue;
        walk->counts[type]++;
        const bool can_be_added = ask_stage_two(walk);
        walk->counts[type]--;
        if (can_be_added)
            return false;
    }
    return true;
}

static void visit_leaf(Walk *walk, const Amounts *room, double value)
{
    Enumeration *all = walk->all;
    if (value <= all->threshold || !ask_stage_two(walk))
        return;
    if (!all->is_maximal || is_maximal(walk, room))
        all->visit(all, walk->counts, value);
}

static void take(Walk *walk, Amounts *room, const PatternStage *stage, int n)
{
    walk->counts[stage->type] += n;
    walk->left[stage->type] -= n;
    for (int resource = 0; resource < RESOURCE_N; resource++)
        room->of[resource] -= n * stage->each->of[resource];
}

static void walk_from(Walk *walk, int at, Amounts room, double value)
{
    if (walk->all->steps_left == 0 || !is_promising(walk, &room, value, at))
        return;
    walk->all->steps_left--;
    if (at == walk->n_stages) {
        visit_leaf(walk, &room, value);
        return;
    }
    const PatternStage *stage = &walk->stages[at];
    int n = 0;
    for (; walk->left[stage->type] > 0 && has_room(&room, stage->each); n++)
        take(walk, &room, stage, 1);
    for (; n >= 0; n--) {
        if (!stage->is_last || stage->type != walk->all->must || walk->counts[stage->type] > 0)
            walk_from(walk, at + 1, room, value + n * stage->value);
        if (n > 0)
            take(walk, &room, stage, -1);
    }
}

void patterns_visit(Enumeration *enumeration)
{
    const Packing *packing = enumeration->packing;
    Arena *arena = arena_new(packing->scratch, "patterns");
    const Amounts capacity = group_capacity(packing->limits, packing->group);
    Walk walk = { .all = enumeration, .packing = packing };
    walk.counts = arena_array(arena, int, packing->n_types);
    walk.left = arena_array(arena, int, packing->n_types);
    memcpy(walk.left, enumeration->left, sizeof(int) * (size_t)packing->n_types);
    make_stages(&walk, arena, &capacity);
    enumeration->value_bound = INFINITY;
    for (int resource = 0; resource < RESOURCE_N; resource++) {
        fill_table(&walk, &capacity, resource);
        enumeration->value_bound =
            fmin(enumeration->value_bound, bound_by(&walk.tables[resource], capacity.of[resource], 0));
    }
    walk_from(&walk, 0, capacity, 0);
    arena_free(arena);
}
