// shape_plans.c - see shape_plans.h.
//
// A plan is made for a shape when its second text comes: the text is bound and rewritten as ever, and once more with
// parameters in the place of literals that are compared (sql/holes.c).  It is kept only if it becomes, with the text's
// own constants put in, the very plan that was made without parameters.  So a shape whose rewrites want to look at
// constants goes on being planned with them.
//
//     key      the shape of the text, and the literals that no hole covers, as they are written
//     suits    tables' newest snapshots; holes_fill: the types of the other literals, and which of them are equal
//
// Several plans may be kept of a shape: for other literals of other digits, and for constants that leave ten times as
// many rows at some node, or a tenth, since the joins may have another order then.

#include "engine/shape_plans.h"

#include <pthread.h>

enum { KEPT_MOST = 128, VARIANTS_MOST = 8, TRIES_MOST = 12, SEEN_MOST = 1024, TEXT_MOST = 8 << 10 };
#define CHANGE_MOST 10.0

typedef struct ShapePlan {
    Arena              *arena;         // of all this
    _Atomic int         n_users;       // the list is one
    u64                 hash;
    const char         *key;
    size_t              key_length;
    const char        **fixed;         // by literal, as it is written; NULL: it may be another one
    size_t             *fixed_lengths;
    int                 n_literals;
    const TextHoles    *holes;
    const Statement    *statement;
    const int          *tokens;        // by place in the text: the token that begins there; -1: none
    const Table       **tables;
    int                 n_tables;
} ShapePlan;

typedef struct Seen { u64 hash; int n_tries; } Seen;           // a shape that came; how often a plan of it was made

struct ShapePlans {
    Arena          *arena;
    pthread_mutex_t mutex;             // guards all below
    u64             now;
    u64             hashes[KEPT_MOST], used[KEPT_MOST];        // used: when it was found last
    ShapePlan      *kept[KEPT_MOST];
    Seen            seen[SEEN_MOST];   // by the last bits of the hash; a newer one replaces it
    ShapeCounts     counts;
};

ShapePlans *shape_plans_new(void)
{
    Arena      *arena = arena_new(NULL, "plans of shapes");
    ShapePlans *plans = arena_make(arena, ShapePlans);
    plans->arena = arena;
    pthread_mutex_init(&plans->mutex, NULL);
    return plans;
}

void shape_plans_free(ShapePlans *plans)
{
    shape_plans_forget(plans);
    pthread_mutex_destroy(&plans->mutex);
    arena_free(plans->arena);
}

static void release(void *context)
{
    ShapePlan *plan = context;
    if (plan && atomic_fetch_sub(&plan->n_users, 1) == 1) arena_free(plan->arena);
}

// ---- instances ------------------------------------------------------------------------------------------------------

typedef struct Move { const ShapePlan *plan; const TextShape *shape; } Move;

// -2 is no place: a plan in which it occurs is not what was expected, and is not kept.
static int move_place(void *context, int at)
{
    const Move *move = context;
    const int   token = move->plan->tokens[at];
    return token < 0 ? -2 : move->shape->starts[token];
}

// The plan for the text of SHAPE, in ARENA; false: there is none.  *CHANGE: see plan_instance.
static bool make_instance(const ShapePlan *plan, const TextShape *shape, Arena *arena, Statement **out, double *change)
{
    const Expr     *values[HOLES_MOST + 1];
    Move            move = { plan, shape };
    const Constants constants = { values, move_place, &move };
    Error           ignored;
    Statement      *statement = *out = arena_make(arena, Statement);
    error_clear(&ignored);
    if (!holes_fill(plan->holes, shape, arena, (Expr **)(uintptr_t)values)) return false;
    *statement = *plan->statement;
    statement->at = shape->starts[0];
    return plan_instance(arena, plan->statement->plan, &constants, &statement->plan, change, &ignored) == WEFT_OK;
}

// ---- finding --------------------------------------------------------------------------------------------------------

static bool is_of_shape(const ShapePlan *plan, const TextShape *shape)
{
    return plan->hash == shape->hash && plan->key_length == shape->key_length &&
           memcmp(plan->key, shape->key, shape->key_length) == 0;
}

static bool has_fixed(const ShapePlan *plan, const TextShape *shape)
{
    for (int i = 0; i < plan->n_literals; i++) {
        const Literal *literal = &shape->literals[i];
        if (!plan->fixed[i]) continue;
        if (plan->fixed_lengths[i] != literal->length || memcmp(plan->fixed[i], literal->bytes, literal->length) != 0)
            return false;
    }
    return true;
}

static ShapePlan *take_out(ShapePlans *plans, int place)
{
    ShapePlan *plan = plans->kept[place];
    const int  last = --plans->counts.n_kept;
    plans->kept[place] = plans->kept[last];
    plans->hashes[place] = plans->hashes[last];
    plans->used[place] = plans->used[last];
    return plan;
}

static bool is_current(const ShapePlan *plan, Store *store)
{
    for (int t = 0; t < plan->n_tables; t++)
        if (!store_is_newest(store, plan->tables[t])) return false;
    return true;
}

// Those that may suit, held for the caller.
static int find_variants(ShapePlans *plans, const TextShape *shape, ShapePlan *found[VARIANTS_MOST])
{
    int n_found = 0;
    pthread_mutex_lock(&plans->mutex);
    for (int i = plans->counts.n_kept - 1; i >= 0 && n_found < VARIANTS_MOST; i--) {
        if (plans->hashes[i] != shape->hash || !is_of_shape(plans->kept[i], shape)) continue;
        if (!has_fixed(plans->kept[i], shape)) continue;
        found[n_found++] = plans->kept[i];
        atomic_fetch_add(&plans->kept[i]->n_users, 1);
    }
    pthread_mutex_unlock(&plans->mutex);
    return n_found;
}

static void drop(ShapePlans *plans, ShapePlan *stale)
{
    int place = -1;
    pthread_mutex_lock(&plans->mutex);
    for (int i = 0; i < plans->counts.n_kept; i++)
        if (plans->kept[i] == stale) place = i;
    if (place >= 0) (void)take_out(plans, place);
    pthread_mutex_unlock(&plans->mutex);
    if (place >= 0) release(stale);
}

// Makes the statement of PLAN, if that suits the text.
static bool try_plan(ShapePlans *plans, ShapePlan *plan, Store *store, const TextShape *shape, Arena *home,
                     Statement **statement)
{
    double change;
    if (!is_current(plan, store)) {
        drop(plans, plan);
        return false;
    }
    return make_instance(plan, shape, home, statement, &change) && change <= CHANGE_MOST;
}

static void count_find(ShapePlans *plans, const ShapePlan *used)
{
    pthread_mutex_lock(&plans->mutex);
    *(used ? &plans->counts.n_found : &plans->counts.n_missed) += 1;
    for (int i = 0; used && i < plans->counts.n_kept; i++)
        if (plans->kept[i] == used) plans->used[i] = ++plans->now;
    pthread_mutex_unlock(&plans->mutex);
}

bool shape_plans_find(ShapePlans *plans, Store *store, const TextShape *shape, Arena *home, ShapeFound *found)
{
    ShapePlan *variants[VARIANTS_MOST], *used = NULL;
    const int  n_variants = find_variants(plans, shape, variants);
    for (int v = 0; v < n_variants; v++) {
        if (!used && try_plan(plans, variants[v], store, shape, home, &found->statement)) used = variants[v];
        else release(variants[v]);
    }
    if (used) {
        found->tables = used->tables, found->n_tables = used->n_tables;
        found->of = used->statement->plan;
        arena_defer(home, release, used);
    }
    count_find(plans, used);
    return used != NULL;
}

// ---- keeping --------------------------------------------------------------------------------------------------------

bool shape_plans_wants(ShapePlans *plans, const TextShape *shape, bool is_eager)
{
    if (shape->is_exact || !shape->n_literals || shape->length > TEXT_MOST) return false;
    pthread_mutex_lock(&plans->mutex);
    Seen      *seen = &plans->seen[shape->hash % SEEN_MOST];
    const bool is_known = seen->hash == shape->hash;
    if (!is_known) *seen = (Seen){ .hash = shape->hash };
    const bool is_wanted = (is_known || is_eager) && seen->n_tries < TRIES_MOST;
    seen->n_tries += is_wanted;
    pthread_mutex_unlock(&plans->mutex);
    return is_wanted;
}

void shape_plans_discourage(ShapePlans *plans, const TextShape *shape)
{
    pthread_mutex_lock(&plans->mutex);
    Seen *seen = &plans->seen[shape->hash % SEEN_MOST];
    if (seen->hash == shape->hash) seen->n_tries += TRIES_MOST / 3;
    pthread_mutex_unlock(&plans->mutex);
}

static void note_literals(ShapePlan *plan, const TextShape *shape)
{
    plan->n_literals = shape->n_literals;
    plan->fixed = arena_array(plan->arena, const char *, shape->n_literals + 1);
    plan->fixed_lengths = arena_array(plan->arena, size_t, shape->n_literals + 1);
    for (int i = 0; i < shape->n_literals; i++) {
        const Literal *literal = &shape->literals[i];
        if (holes_cover(plan->holes, i)) continue;
        plan->fixed[i] = arena_strndup(plan->arena, literal->bytes, literal->length);
        plan->fixed_lengths[i] = literal->length;
    }
}

static void note_tokens(ShapePlan *plan, const TextShape *shape)
{
    int *tokens = arena_array(plan->arena, int, shape->length + 1);
    for (size_t i = 0; i <= shape->length; i++) tokens[i] = -1;
    for (int t = 0; t < shape->n_tokens; t++) tokens[shape->starts[t]] = t;
    plan->tokens = tokens;
}

static ShapePlan *new_plan(const TextShape *shape, Arena *arena, const Statement *statement, const TextHoles *holes,
                           const Table *const *tables, int n_tables)
{
    ShapePlan *plan = arena_make(arena, ShapePlan);
    plan->arena = arena;
    atomic_init(&plan->n_users, 1);
    plan->hash = shape->hash;
    plan->key = arena_strndup(arena, shape->key, shape->key_length);
    plan->key_length = shape->key_length;
    plan->statement = statement;
    plan->holes = holes;
    plan->tables = arena_array(arena, const Table *, n_tables + 1);
    plan->n_tables = n_tables;
    for (int t = 0; t < n_tables; t++) plan->tables[t] = tables[t];
    note_literals(plan, shape);
    note_tokens(plan, shape);
    return plan;
}

static bool is_same_plan(const Plan *a, const Plan *b)
{
    Text x = { 0 }, y = { 0 };
    plan_dump(a, &x);
    plan_dump(b, &y);
    const bool is_same = x.length == y.length && memcmp(x.bytes, y.bytes, x.length) == 0;
    text_free(&x);
    text_free(&y);
    return is_same;
}

// Estimates of other texts are compared with those of the constants that the plan was made for.
static bool is_as_expected(const ShapePlan *plan, const TextShape *shape, const Plan *expected)
{
    Statement *own;
    double     ignored;
    Arena     *scratch = arena_new(NULL, "instance");
    const bool is_it = make_instance(plan, shape, scratch, &own, &ignored) && is_same_plan(own->plan, expected);
    if (is_it) plan_keep_rows(plan->statement->plan, own->plan);
    arena_free(scratch);
    return is_it;
}

// Where there are many of the shape already, the one that was not used for longest goes; else any such.
static int place_to_clear(const ShapePlans *plans, const TextShape *shape)
{
    int n_variants = 0, of_shape = -1, oldest = 0;
    for (int i = 0; i < plans->counts.n_kept; i++) {
        const bool is_variant = is_of_shape(plans->kept[i], shape);
        n_variants += is_variant;
        if (is_variant && (of_shape < 0 || plans->used[i] < plans->used[of_shape])) of_shape = i;
        if (plans->used[i] < plans->used[oldest]) oldest = i;
    }
    if (n_variants >= VARIANTS_MOST) return of_shape;
    return plans->counts.n_kept == KEPT_MOST ? oldest : -1;
}

void shape_plans_add(ShapePlans *plans, const TextShape *shape, Arena *arena, const Statement *statement,
                     const TextHoles *holes, const Plan *expected, const Table *const *tables, int n_tables)
{
    ShapePlan *plan = new_plan(shape, arena, statement, holes, tables, n_tables), *dropped = NULL;
    if (!is_as_expected(plan, shape, expected)) {
        release(plan);
        shape_plans_discourage(plans, shape);
        return;
    }
    pthread_mutex_lock(&plans->mutex);
    const int place = place_to_clear(plans, shape);
    if (place >= 0) dropped = take_out(plans, place);
    plans->hashes[plans->counts.n_kept] = plan->hash;
    plans->used[plans->counts.n_kept] = ++plans->now;
    plans->kept[plans->counts.n_kept++] = plan;
    pthread_mutex_unlock(&plans->mutex);
    release(dropped);
}

void shape_plans_forget(ShapePlans *plans)
{
    ShapePlan *forgotten[KEPT_MOST];
    int        n_forgotten = 0;
    pthread_mutex_lock(&plans->mutex);
    while (plans->counts.n_kept) forgotten[n_forgotten++] = take_out(plans, plans->counts.n_kept - 1);
    memset(plans->seen, 0, sizeof plans->seen);
    pthread_mutex_unlock(&plans->mutex);
    while (n_forgotten) release(forgotten[--n_forgotten]);
}

ShapeCounts shape_plans_counts(ShapePlans *plans)
{
    pthread_mutex_lock(&plans->mutex);
    const ShapeCounts counts = plans->counts;
    pthread_mutex_unlock(&plans->mutex);
    return counts;
}
