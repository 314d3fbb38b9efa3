// plans.c - see plans.h.  Few enough for a list without an index: a search compares as many hashes as fit 16 cache
// lines.

#include "engine/plans.h"

#include <pthread.h>

enum { PLANS_MOST = 128, TEXT_BYTES_MOST = 8 << 10, SEEN_MOST = 1024 };

struct KeptPlan {
    Arena           *arena;            // of all this
    _Atomic int      n_users;          // the list is one
    const char      *text;
    const Statement *statement;
    const Table    **tables;
    int              n_tables;
};

struct Plans {
    Arena          *arena;
    pthread_mutex_t mutex;             // guards all below
    u64             now;               // counts searches
    u64             hashes[PLANS_MOST], used[PLANS_MOST];      // used: when it was found last
    KeptPlan       *kept[PLANS_MOST];
    u64             seen[SEEN_MOST];   // hashes of texts that came once, by their last bits; a newer one replaces it
    PlanCounts      counts;
};

Plans *plans_new(void)
{
    Arena *arena = arena_new(NULL, "plans");
    Plans *plans = arena_make(arena, Plans);
    plans->arena = arena;
    pthread_mutex_init(&plans->mutex, NULL);
    return plans;
}

void plans_free(Plans *plans)
{
    plans_forget(plans);
    pthread_mutex_destroy(&plans->mutex);
    arena_free(plans->arena);
}

void plan_release(KeptPlan *kept)
{
    if (kept && atomic_fetch_sub(&kept->n_users, 1) == 1) arena_free(kept->arena);
}

const Statement *plan_statement(const KeptPlan *kept)
{
    return kept->statement;
}

static int find_place(const Plans *plans, const char *text, u64 hash)
{
    for (int i = 0; i < plans->counts.n_kept; i++)
        if (plans->hashes[i] == hash && strcmp(plans->kept[i]->text, text) == 0) return i;
    return -1;
}

static KeptPlan *take_out(Plans *plans, int place)
{
    KeptPlan *kept = plans->kept[place];
    const int last = --plans->counts.n_kept;
    plans->kept[place] = plans->kept[last];
    plans->hashes[place] = plans->hashes[last];
    plans->used[place] = plans->used[last];
    return kept;
}

static bool is_current(const KeptPlan *kept, Store *store)
{
    for (int t = 0; t < kept->n_tables; t++)
        if (!store_is_newest(store, kept->tables[t])) return false;
    return true;
}

KeptPlan *plans_find(Plans *plans, Store *store, const char *text)
{
    const u64 hash = hash_bytes(text, strlen(text));
    KeptPlan *kept = NULL, *stale = NULL;
    pthread_mutex_lock(&plans->mutex);
    const int place = find_place(plans, text, hash);
    if (place >= 0 && is_current(plans->kept[place], store)) {
        kept = plans->kept[place];
        plans->used[place] = ++plans->now;
        atomic_fetch_add(&kept->n_users, 1);
    } else if (place >= 0) {
        stale = take_out(plans, place);
    }
    *(kept ? &plans->counts.n_found : &plans->counts.n_missed) += 1;
    pthread_mutex_unlock(&plans->mutex);
    plan_release(stale);
    return kept;
}

bool plans_has(Plans *plans, Store *store, const char *text)
{
    pthread_mutex_lock(&plans->mutex);
    const int  place = find_place(plans, text, hash_bytes(text, strlen(text)));
    const bool is_there = place >= 0 && is_current(plans->kept[place], store);
    pthread_mutex_unlock(&plans->mutex);
    return is_there;
}

static int oldest_place(const Plans *plans)
{
    int oldest = 0;
    for (int i = 1; i < plans->counts.n_kept; i++)
        if (plans->used[i] < plans->used[oldest]) oldest = i;
    return oldest;
}

static void add(Plans *plans, KeptPlan *kept, u64 hash)
{
    const int place = plans->counts.n_kept++;
    ASSERT(place < PLANS_MOST);
    plans->kept[place] = kept;
    plans->hashes[place] = hash;
    plans->used[place] = ++plans->now;
    atomic_fetch_add(&kept->n_users, 1);
}

static bool has_come_before(Plans *plans, u64 hash)
{
    u64       *seen = &plans->seen[hash % SEEN_MOST];
    const bool is_known = *seen == hash;
    *seen = hash;
    return is_known;
}

KeptPlan *plans_keep(Plans *plans, const char *text, Arena *arena, const Statement *statement,
                     const Table *const *tables, int n_tables)
{
    const size_t length = strlen(text);
    const u64    hash = hash_bytes(text, length);
    KeptPlan    *kept = arena_make(arena, KeptPlan), *dropped = NULL;
    kept->arena = arena;
    atomic_init(&kept->n_users, 1);
    kept->statement = statement;
    if (length > TEXT_BYTES_MOST) return kept;
    kept->text = arena_strndup(arena, text, length);
    kept->tables = arena_array(arena, const Table *, n_tables + 1);
    kept->n_tables = n_tables;
    for (int t = 0; t < n_tables; t++) kept->tables[t] = tables[t];
    pthread_mutex_lock(&plans->mutex);
    if (has_come_before(plans, hash) && find_place(plans, text, hash) < 0) {
        if (plans->counts.n_kept == PLANS_MOST) dropped = take_out(plans, oldest_place(plans));
        add(plans, kept, hash);
    }
    pthread_mutex_unlock(&plans->mutex);
    plan_release(dropped);
    return kept;
}

void plans_forget(Plans *plans)
{
    KeptPlan *forgotten[PLANS_MOST];
    int       n_forgotten = 0;
    pthread_mutex_lock(&plans->mutex);
    while (plans->counts.n_kept) forgotten[n_forgotten++] = take_out(plans, plans->counts.n_kept - 1);
    pthread_mutex_unlock(&plans->mutex);
    while (n_forgotten) plan_release(forgotten[--n_forgotten]);
}

PlanCounts plans_counts(Plans *plans)
{
    pthread_mutex_lock(&plans->mutex);
    const PlanCounts counts = plans->counts;
    pthread_mutex_unlock(&plans->mutex);
    return counts;
}
